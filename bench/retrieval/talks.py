"""Two made-up conversations of several sessions, and questions with the turns that answer them.

A session begins with its date. A question names, after a bar, the lines of its session that answer it, or
those of other sessions as session:line. The answer is in the turn with the words, beside it, or in several
sessions.
"""

from __future__ import annotations

NORA_AND_IDRIS = """
# 9:15 am on 12 January, 2024
Nora: Morning! Did you survive the move?
Idris: Barely. The new flat is on the fourth floor and the lift was out of order.
Nora: Oh no. Who helped you carry everything?
Idris: My cousin Samir and two of his friends from the fire brigade.
Nora: That is lucky. Is the kitchen as small as you feared?
Idris: Smaller! I had to leave the big table in the cellar.
Nora: You can always eat at my place. I am making lentil soup on Sunday.
Idris: I will bring the bread. I have started baking with rye.
Nora: Rye takes for ever, no?
Idris: Two days, but the smell alone is worth it.
? Who carried Idris' furniture to the new flat? | 3 4
? Which piece of furniture did not fit into his kitchen? | 6
? What does Idris bake? | 8 9
? How long does the rye bread take? | 10
# 6:40 pm on 3 February, 2024
Idris: Sorry for not calling back, I was at the hospital with my father.
Nora: Is he all right? What happened?
Idris: He slipped on the ice and broke his wrist.
Nora: Poor man. Which hospital is he in?
Idris: Saint Luke, the one by the river. He is coming home on Friday.
Nora: Give him my best. When my mother broke her hip we read novels to her every evening.
Idris: Did it help?
Nora: It helped me more than her, I think. She slept through most of them.
Idris: He would rather have the football results.
Nora: Then read him those! How is the flat?
Idris: Quiet. The neighbours above are two old sisters who play cards.
? What did Idris' father break? | 3
? In which hospital was he treated? | 4 5
? What did Nora do for her mother after the hip? | 6
? Who lives above Idris? | 11
? What happened to Idris' father in February? | 1 3
# 8:05 pm on 27 February, 2024
Nora: I did it. I handed in my notice at the bank.
Idris: Finally! How did your boss take it?
Nora: She was kinder than I thought. She even offered me part-time work.
Idris: And will you take that?
Nora: No. I want to put everything into the bookbinding course.
Idris: When does it start?
Nora: The second of April, in the old paper mill. There are only eight places.
Idris: I still have the notebook that you sewed for my birthday.
Nora: The crooked one? Please throw it away.
Idris: Never. All my recipes are in there.
? Where did Nora work before? | 1
? What was Nora offered when she quit? | 3
? When does the bookbinding course begin? | 6 7
? Where is the course held? | 7
? Where does Idris write down his recipes? | 8 10
# 7:30 pm on 21 March, 2024
Idris: Guess who I met at the market today. Lena!
Nora: Lena from the choir? I have not seen her in years.
Idris: The same. She has a stall there now, with goat cheese.
Nora: She always said that she would leave the office one day.
Idris: She has eleven goats and one of them is called Pavarotti.
Nora: Of course it is. Did she ask about me?
Idris: She asked whether you still sing.
Nora: Only in the car. What did you tell her?
Idris: That you would come to the spring concert on the fourteenth of April.
Nora: Idris! I promised nothing.
Idris: It is the Requiem, you know every note of it.
? What does Lena sell at the market? | 3
? What is the name of Lena's goat? | 5
? Which concert should Nora come to? | 9 11
? What did Lena want to know about Nora? | 6 7
? Where does Nora sing these days? | 7 8
# 9:50 pm on 15 April, 2024
Nora: My voice is gone but I am so happy.
Idris: You were wonderful last night. My father cried.
Nora: Is his wrist better?
Idris: He clapped with both hands, so yes.
Nora: And the course! I have sewn my first real binding, in green linen.
Idris: Show me. Is the teacher good?
Nora: Mr Halloran is strict. He made me undo the spine three times.
Idris: Strict is good. Mine let me ruin forty loaves.
Nora: You had a teacher?
Idris: The baker on Mill Street. I swept his floor on Saturdays when I was fifteen.
? Who teaches bookbinding? | 6 7
? What colour was the first book that Nora bound? | 5
? How did Idris learn baking? | 8 10
? Did the father come to the concert? | 2
? What did Nora say about her teacher? | 7
# 12:20 pm on 8 June, 2024
Idris: We are thinking of a trip in August, Samir and I. By bicycle along the coast.
Nora: With your knee?
Idris: The knee is fine since the exercises. We want to do sixty kilometres a day.
Nora: Where would you sleep?
Idris: In a tent. Samir has one from his time in the fire brigade.
Nora: I would need a bed. But I could meet you with the car at the lighthouse.
Idris: That would be perfect. You bring the soup.
Nora: And you bring the bread, I know.
Idris: What about your summer?
Nora: I have rented a table in a workshop. First orders: forty wedding albums!
? How does Idris want to travel along the coast? | 1
? Where will they sleep on the trip? | 4 5
? Where could Nora meet them? | 6
? What did Nora get her first orders for? | 10
? What made the knee better? | 2 3
# 5:45 pm on 30 August, 2024
Nora: You are back! How brown you are.
Idris: And thin. We lost two days to a storm and slept in a barn.
Nora: In a barn?
Idris: A farmer's wife found us under a tree and would not hear of the tent.
Nora: What did your cousin say to that?
Idris: Samir proposed to her on the spot, she is seventy-eight.
Nora: I waited at the lighthouse with the soup for three hours.
Idris: I know. I owe you an oven full of rye.
Nora: I ate all of it with the keeper. He is a widower and collects clocks.
Idris: Nora!
Nora: We are having dinner on Thursday.
? Why did the trip take longer? | 2
? Who took them in during the storm? | 4
? What does the lighthouse keeper collect? | 9
? What is Nora doing on Thursday with the keeper? | 9 11
? What did Idris say about the storm? | 2 4
? Who ate the soup? | 7 9
# 8:30 pm on 19 October, 2024
Idris: So, how is the man with the clocks?
Nora: Anselm is well. He is teaching me to wind the big one.
Idris: Is that what they call it now?
Nora: Stop it. I have bound his logbooks, sixty years of weather.
Idris: My father wants to meet him. He loves weather.
Nora: Bring him on Sunday. How is he?
Idris: Stubborn. He stopped taking the pills for his blood pressure.
Nora: Did you tell the doctor?
Idris: She is coming on Monday. I have also got news: I am taking over the bakery.
Nora: On Mill Street? Since when?
Idris: The old man retires at the end of the year. I sign on the first of December.
? What is the lighthouse keeper called? | 1 2
? What did Nora bind for Anselm? | 4
? Which medicine did the father stop taking? | 6 7
? When does Idris sign for the bakery? | 9 11
? Which bakery is Idris taking over? | 9 10
? What has Samir done for Idris? | 1:4 6:5
? What did Nora cook for Idris? | 1:7 7:7
? What has happened to the father's health this year? | 2:3 5:4 8:7
? What news did they have in October? | 9
"""

MARTA_AND_THE_ASSISTANT = """
# 7:10 am on 4 March, 2025
Marta: I have not slept. The presentation for the board is at ten.
Assistant: That sounds exhausting. What worries you most about it?
Marta: That my voice shakes and they think I made the numbers up.
Assistant: What has helped you with your voice before?
Marta: Humming in the bathroom, honestly. And a sip of warm water.
Assistant: Then hum for two minutes at a quarter to ten. What is the number they will doubt?
Marta: The forty percent in the Lisbon office.
Assistant: You could put the sheet with the sources on the last slide.
Marta: Good idea. I will do that right now.
? What helps Marta when her voice shakes? | 4 5
? Which figure might the board doubt? | 6 7
? What did the assistant suggest for the last slide? | 8
# 9:40 pm on 6 March, 2025
Marta: It went well! They asked about the budget and nothing else.
Assistant: I am glad. How was your voice?
Marta: Steady. I hummed, and my colleague Bruno heard me through the wall.
Assistant: What did Bruno say?
Marta: He thought it was the ventilation.
Assistant: Did anybody doubt the numbers?
Marta: Only the treasurer, and then he saw the sources.
Assistant: So the slide was worth the work. What would you like to do tomorrow?
Marta: Sleep. And buy a dress for my sister's wedding.
? Who heard Marta humming? | 3
? What did Bruno think the humming was? | 4 5
? Who in the board had doubts? | 6 7
? What does Marta want to buy? | 8 9
# 10:05 pm on 22 March, 2025
Marta: I shouted at my daughter because of a glass of milk.
Assistant: What had the day been like before the glass?
Marta: The landlord wrote. He is raising the rent by two hundred from May.
Assistant: So you carried that letter all evening. What did Olga do?
Marta: She cried and went to her room with the cat.
Assistant: Is there something you would like to tell her?
Marta: That it was not about the milk.
Assistant: You could say exactly that, at breakfast, in one sentence.
Marta: I will write it on a note, too. She keeps my notes in a tin.
? Why was Marta angry at home? | 1 3
? By how much does the rent rise? | 3
? What did Olga do after the quarrel? | 4 5
? Where does Olga keep the notes? | 9
? What did the assistant advise about breakfast? | 8
# 6:30 pm on 17 May, 2025
Marta: The wedding is over and my feet are bleeding.
Assistant: Congratulations to your sister! What was the best moment?
Marta: When our grandfather danced. He is ninety-one and has a new hip.
Assistant: That must have been a sight. How was the dress?
Marta: Blue, and too tight for the cake.
Assistant: Earlier you worried about meeting your ex there.
Marta: Viktor came with his new wife. We talked about Olga's school and that was all.
Assistant: How do you feel about it today?
Marta: Lighter. I thought that I would hate her, and she asked for the recipe of the poppy cake.
? Who danced at the wedding? | 3
? What colour was Marta's dress? | 4 5
? Whom did Marta fear to meet at the wedding? | 6 7
? What did Viktor's wife ask for? | 7 9
? What happened in May? | 1
# 11:15 pm on 2 July, 2025
Marta: Olga has a fever again, the third time since spring.
Assistant: How high is it, and how is she otherwise?
Marta: Thirty-nine two. She drinks, and she complains about her ear.
Assistant: With an ear that hurts and this fever a doctor should look at her today. Is there one on duty?
Marta: The clinic in Harbour Street is open until midnight. We are getting dressed.
Assistant: Good. Take her drops along, and something to drink.
Marta: It is an infection of the middle ear. She got an antibiotic, the pink one.
Assistant: Is she allergic to anything?
Marta: Only to wasps, thank goodness. She fell asleep on my lap in the tram.
? How high was Olga's fever? | 2 3
? Where is the clinic that is open at night? | 4 5
? What was wrong with Olga's ear? | 7
? What is Olga allergic to? | 8 9
? What did the assistant say about the doctor? | 4
# 7:50 pm on 9 September, 2025
Marta: I said no to Bruno today. He wanted me to take over his project as well.
Assistant: How did it feel to say it?
Marta: My knees trembled. But he only said, fine, I will ask Pavel.
Assistant: So the sky did not fall. Which project was it?
Marta: The archive in Lisbon. Eight weeks of dust.
Assistant: And what will you do with these weeks?
Marta: Olga and I are learning to swim properly. She wants to dive from the tower.
Assistant: And you?
Marta: I want to stop holding my nose.
? What did Marta refuse to take over? | 1 4 5
? Who will be asked instead of Marta? | 3
? What are mother and daughter learning? | 7
? What is Marta's own aim in the water? | 8 9
# 8:20 pm on 28 November, 2025
Marta: We found a flat. Two rooms and a balcony, and the rent is what it was before.
Assistant: That is great news after this spring. When do you move?
Marta: On the tenth of January. Bruno lends us his van.
Assistant: What does Olga say?
Marta: She wants to know whether the cat may have the balcony.
Assistant: And may she?
Marta: With a net. The caretaker, Mrs Lind, has three cats herself.
Assistant: How are you sleeping these days?
Marta: Seven hours! I put the phone in the kitchen, as you suggested in summer.
? When does Marta move into the new flat? | 2 3
? Who lends Marta a van? | 3
? What is the caretaker's name? | 7
? What did Marta change to sleep better? | 8 9
? What did Marta's colleague Bruno do for her or ask of her? | 6:1 7:3
? What trouble did they have with the rent? | 3:3 7:1
? What do we know about the cat? | 3:5 7:5 7:7
"""
