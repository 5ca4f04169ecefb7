"""Facts and questions set apart: written before the search by words was tuned, and not looked at for it."""

# ruff: noqa: E501 - a fact and its question stand on one line

from __future__ import annotations

# category | subject | predicate | object | what was said | kind of question | what might be asked later
HELD_OUT = """
relationship|cousin|IS_CALLED|Ravi|My cousin Ravi got me into beekeeping.|people|Which cousin talked me into keeping bees?
relationship|cousin|LIVES_IN|Nairobi|Ravi flew back to Nairobi last week.|people|Where does Ravi live?
relationship|choir director|IS_CALLED|Mr Lindqvist|Mr Lindqvist directs our choir and never smiles.|people|Who directs the choir?
relationship|therapist|IS_CALLED|Dr Hale|I see Dr Hale on alternate Wednesdays.|people|When are my therapy sessions?
relationship|dentist|IS_CALLED|Dr Osei|Dr Osei pulled two of my wisdom teeth.|people|Who removed my wisdom tooth?
relationship|sister-in-law|IS_CALLED|Greta|My sister-in-law Greta is expecting twins in August.|people|Who is pregnant in my family?
relationship|flatmate|IS_CALLED|Kofi|My old flatmate Kofi still owes me for the deposit.|people|Who owes me money?
relationship|mentor|IS_CALLED|Beatriz|Beatriz mentored me through my first year at the agency.|people|Who was my mentor at the agency?
relationship|grandson|IS_CALLED|Emil|Our grandson Emil was born with a heart murmur.|people|What condition does my grandson have?
relationship|postman|IS_CALLED|Stefan|Stefan the postman leaves parcels behind the bins.|people|Where does the postman put my packages?
relationship|manager|IS_CALLED|Olga|Olga approves my holidays.|people|Who has to approve my vacation?
relationship|stepmother|IS_CALLED|Ines|Ines raised me from the age of four.|people|Who brought me up?
relationship|vet|IS_CALLED|Dr Park|Dr Park vaccinated the rabbits in March.|people|When were the rabbits vaccinated?
relationship|babysitter|IS_CALLED|Lotte|Lotte babysits on Tuesdays and Fridays.|people|On which days does the babysitter come?
relationship|trainer|IS_CALLED|Marek|Marek says my squats are too shallow.|people|What does my trainer criticise?
relationship|godson|IS_CALLED|Theo|Theo, my godson, collects fossils.|people|What does my godson collect?
relationship|aunt|IS_CALLED|Wanda|Aunt Wanda left me her sewing box.|people|What did Wanda leave me?
relationship|dance partner|IS_CALLED|Pablo|Pablo steps on my feet when we waltz.|people|With whom do I dance the waltz?
relationship|lawyer|IS_CALLED|Ms Adeyemi|Ms Adeyemi is handling my inheritance.|people|Which lawyer is handling the inheritance?
relationship|swim coach|IS_CALLED|Joanna|Joanna coaches us at six in the morning.|people|At what time is swim coaching?
health|User|HAS|hay fever|My hay fever is worst in June.|paraphrase|In which month do I sneeze the most?
health|User|TAKES|thyroid pills|I swallow my thyroid pill on an empty stomach.|paraphrase|Should I take my thyroid medication with food?
health|User|HAS|flat feet|I've got flat feet and wear insoles.|paraphrase|Why do I need special shoes?
health|User|BROKE|wrist|I broke my wrist snowboarding.|paraphrase|How did I break my wrist?
health|User|HAD|shingles|I had shingles in my thirties.|paraphrase|How old was I when I got shingles?
health|User|HAS|low blood pressure|My blood pressure drops when I stand up too fast.|paraphrase|Why do I get dizzy when I stand up?
health|User|DRINKS|two litres|I try to drink two litres of water daily.|paraphrase|How much water should I be drinking?
health|User|QUIT|smoking|I quit smoking when my son was born.|paraphrase|When did I stop smoking?
health|User|WEARS|a hearing aid|I wear a hearing aid on the right.|paraphrase|Which ear is my hearing aid in?
health|User|SLEEPS|six hours|I sleep about six hours on weekdays.|paraphrase|How long do I usually sleep?
food|User|LIKES|ramen|I queue an hour for good ramen.|paraphrase|For which noodle soup would I stand in line?
food|User|LIKES|dark chocolate|A square of dark chocolate ends every day of mine.|paraphrase|What do I snack on in the evening?
food|User|DISLIKES|olives|Olives make me gag.|paraphrase|Can I put olives in the salad?
food|User|COOKS|curries|I cook curries in huge batches and freeze them.|paraphrase|What do I have in the freezer?
food|User|EATS|no pork|We don't eat pork at home.|negation|Do we eat pork?
food|User|LIKES|spicy food|The spicier the better for me.|paraphrase|How hot may my dinner be?
food|User|DRINKS|oat milk|I take oat milk in my coffee.|paraphrase|What milk goes into my coffee?
food|User|BREWS|kombucha|I brew kombucha under the sink.|paraphrase|What is fermenting in my kitchen?
food|User|DISLIKES|breakfast|I skip breakfast most days.|paraphrase|Do I eat in the morning?
food|User|LIKES|farmers market|We buy our vegetables at the farmers' market on Saturdays.|paraphrase|Where do we shop for vegetables?
work|User|WORKS_AS|translator|I translate contracts from Dutch.|paraphrase|Which language do I translate from?
work|User|WORKS|from home|I've been working from home since 2020.|paraphrase|Since when do I work at home?
work|User|HAS|a deadline|The manual has to be delivered on the ninth.|paraphrase|When is the delivery date of the manual?
work|User|DISLIKES|video calls|Video calls exhaust me.|paraphrase|Why am I so tired after meetings on camera?
work|User|CHARGES|per word|I charge by the word, never by the hour.|paraphrase|How do I bill my clients?
work|User|LOST|a client|My biggest client went bankrupt.|paraphrase|What happened to my largest customer?
work|User|TEACHES|evening class|I teach an evening class on translation.|paraphrase|What class do I teach?
work|User|USES|two monitors|Two monitors are the least I need.|paraphrase|How many screens are on my desk?
work|User|APPLIED_FOR|a grant|I applied for a grant to translate poems.|paraphrase|What did I apply for?
work|User|NOT_WORKING|weekends|I don't work on weekends, whatever they pay.|negation|Do I accept weekend work?
hobby|User|KEEPS|bees|I keep bees on the roof.|paraphrase|Which insects do I look after?
hobby|User|PLAYS|the ukulele|I strum the ukulele badly.|paraphrase|What do I strum?
hobby|User|READS|biographies|I only read biographies nowadays.|paraphrase|Which books should you recommend to me?
hobby|User|BUILDS|model trains|There's a model railway in our attic.|paraphrase|What did I build in the attic?
hobby|User|GOES|geocaching|On Sundays we go geocaching with the kids.|paraphrase|What do we do with the children on Sundays?
hobby|User|STOPPED|playing poker|I stopped playing poker for money.|negation|Am I still playing poker?
hobby|User|SEWS|quilts|I'm sewing a quilt out of old shirts.|paraphrase|What am I making from old shirts?
hobby|User|SKATES|in winter|We skate on the canal when it freezes.|paraphrase|Where do we go ice skating?
hobby|User|WATCHES|cycling|I never miss a stage of the Tour.|paraphrase|Which cycling race do I follow?
hobby|User|GARDENS|roses|My roses won second prize.|paraphrase|What did I win with my flowers?
concern|User|WORRIES_ABOUT|pension|I'm worried my pension won't be enough.|paraphrase|What worries me about retirement?
concern|User|WORRIES_ABOUT|the inheritance|We siblings are fighting over the inheritance.|paraphrase|What are my siblings and I fighting about?
concern|User|WORRIES_ABOUT|mould|There's mould behind the wardrobe.|paraphrase|What is growing behind the wardrobe?
concern|User|WORRIES_ABOUT|son's grades|My son's grades have dropped since autumn.|paraphrase|How is my son doing at school?
concern|User|WORRIES_ABOUT|noise|The neighbours' parties keep me awake.|paraphrase|Why can't I sleep because of the neighbour?
concern|User|WORRIES_ABOUT|scan|I'm waiting for an appointment for the scan.|paraphrase|Which appointment am I waiting for?
concern|User|WORRIES_ABOUT|loneliness|Since the move I hardly know anyone.|paraphrase|Do I have friends here?
concern|User|WORRIES_ABOUT|tax|The tax office wants three years of receipts.|paraphrase|How many years of receipts do they want?
concern|User|FEARS|lifts|Lifts frighten me, I always take the stairs.|paraphrase|Why do I take the stairs?
concern|User|WORRIES_ABOUT|driving at night|I avoid driving in the dark.|paraphrase|When do I avoid the car?
goal|User|WANTS|to run ten kilometres|I'm training to run ten kilometres without a break.|paraphrase|What distance am I training for?
goal|User|WANTS|a smaller flat|We'd like to downsize to a smaller flat.|paraphrase|What kind of flat are we looking for?
goal|User|WANTS|to learn sign language|I want to learn sign language for Emil.|paraphrase|Which language do I want to learn?
goal|User|WANTS|to publish poems|I want to publish a book of poems before sixty.|paraphrase|What do I want to have published?
goal|User|WANTS|less screen time|No screens after nine is my new rule.|paraphrase|When should I switch off my phone?
goal|User|WANTS|to see the aurora|Seeing the northern lights is on my list.|paraphrase|Which lights do I want to see?
goal|User|WANTS|to forgive her|I'm trying to forgive my mother.|paraphrase|Whom am I trying to forgive?
coping|User|USES|humming|Humming quietly settles my nerves.|paraphrase|What settles my nerves?
coping|User|USES|gardening|Weeding for an hour clears my mind.|paraphrase|What clears my mind?
coping|User|USES|hot shower|A hot shower helps when I feel overwhelmed.|paraphrase|What helps when everything overwhelms me?
coping|User|USES|talking to Dr Hale|Talking it through with Dr Hale helps most.|paraphrase|Who helps me most by talking?
coping|User|DOES_NOT_HELP|jogging|Jogging doesn't calm me at all.|negation|Does jogging calm me?
coping|User|DOES_NOT_HELP|breathing exercises|Breathing exercises make me light-headed.|negation|Are breathing exercises good for me?
coping|User|USES|counting tiles|In waiting rooms I count the tiles.|paraphrase|What do I do in waiting rooms?
home|User|LIVES_IN|Utrecht|We moved to Utrecht two years ago.|paraphrase|When did we move to Utrecht?
home|User|OWNS|a tandem|There's a tandem in our hallway.|paraphrase|What kind of bike stands in the hallway?
home|User|HAS|solar panels|Our solar panels were installed in May.|paraphrase|When did they install the solar panel?
home|User|KEEPS|rabbits|Our rabbits are named Flip and Flop.|paraphrase|What are the names of my rabbits?
home|User|NOT_OWNS|a car|We sold the car and never missed it.|negation|Do we still have a car?
home|User|HAS|a leaking tap|The tap in the bathroom has been dripping for weeks.|paraphrase|What is dripping in the bathroom?
home|User|PAYS|mortgage|The mortgage is paid off in 2031.|paraphrase|When will we have paid off the mortgage?
home|User|HIDES|passports|The passports are in the blue folder.|near-miss|Where did I put the passports?
home|User|KEEPS|vaccination cards|The vaccination cards are in the red folder.|near-miss|In which folder are the vaccination cards?
home|User|KEEPS|birth certificates|The birth certificates are in the green folder.|near-miss|Where can I find the birth certificate?
travel|User|VISITED|Lisbon|In Lisbon I was pickpocketed on the tram.|near-miss|Where was I pickpocketed?
travel|User|VISITED|Prague|In Prague we got engaged on the bridge.|near-miss|Where did we get engaged?
travel|User|VISITED|Dublin|In Dublin it rained for nine days.|near-miss|How many days did it rain in Dublin?
travel|User|PLANS|the Azores|We've booked the Azores for September.|paraphrase|What trip have we booked?
travel|User|AVOIDS|camping|Camping is not for me any more.|negation|Would I go camping?
travel|User|PACKS|earplugs|I never travel without earplugs.|paraphrase|What do I always pack?
event|User|EXPERIENCED|flood|The flood ruined our cellar in 2013.|paraphrase|What was ruined by the flooding?
event|User|EXPERIENCED|silver wedding|We celebrated our silver wedding in a castle.|paraphrase|How did we celebrate twenty-five years of marriage?
event|User|EXPERIENCED|retirement party|At my retirement party my boss cried.|paraphrase|Who cried at the party?
event|User|EXPERIENCED|choir tour|We sang in four cathedrals on the choir tour.|paraphrase|In how many cathedrals did the choir sing?
event|User|EXPERIENCED|degree|I graduated in linguistics at forty.|paraphrase|At what age did I graduate?
loss|User|EXPERIENCED|father's death|My father passed away before the wedding.|paraphrase|When did my father die?
loss|User|EXPERIENCED|best friend moved|My best friend emigrated to Canada.|paraphrase|Where has my best friend emigrated?
preference|User|LIKES|short answers|Keep it short with me.|paraphrase|How long should replies be?
preference|User|LIKES|swifts|When the swifts return I'm happy.|paraphrase|Which birds make me happy?
preference|User|DISLIKES|small talk|Small talk bores me to tears.|paraphrase|Do I enjoy chatting about the weather?
preference|User|PREFERS|paper|I prefer paper tickets to apps.|paraphrase|Which tickets do I prefer?
health|User|NIMMT|Vitamin D|Im Winter nehme ich Vitamin D.|not English|Welches Vitamin nehme ich im Winter?
hobby|User|SAMMELT|Briefe|Ich sammle alte Briefe vom Flohmarkt.|not English|Was sammle ich?
food|User|AIME|les huîtres|Je mange des huîtres à Noël.|not English|Qu'est-ce que je mange à Noël ?
work|User|TRABAJA|los lunes|Los lunes trabajo desde la biblioteca.|not English|¿Dónde trabajo los lunes?
home|User|HEEFT|een volkstuin|We hebben een volkstuin aan de rand van de stad.|not English|Waar hebben we een volkstuin?
health|User|HAS|arthritis|Arthritis in my fingers makes typing hard.|across languages|Warum fällt mir das Tippen schwer, Arthritis?
hobby|User|PLAYS|badminton|I play badminton with the neighbours on Mondays.|across languages|Wann spiele ich Badminton?
food|User|LIKES|tiramisu|Tiramisu is my weakness.|across languages|Quel dessert j'adore, le tiramisu ?
travel|User|VISITED|Vietnam|We cycled through Vietnam for a month.|across languages|¿Cuánto tiempo estuvimos en Vietnam?
concern|User|WORRIES_ABOUT|knee|My knee swells after every run.|across languages|Was schwillt nach dem Laufen an?
"""
